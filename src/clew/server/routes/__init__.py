"""The endpoints of the API, one module for each resource; those of ``clew.api`` have the same names."""
