"""Guests: the frameworks people use, on threads of ours."""
