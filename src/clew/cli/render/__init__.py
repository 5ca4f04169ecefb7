"""Values as a terminal shows them."""
