"""Copies of whole databases: files, dumps and volumes, and what they hold."""
