"""A labelled set for retrieval: facts of one made-up person, and what they might ask later."""
