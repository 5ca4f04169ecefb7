"""The database as a program sees it: threads, records, jobs, search, archives."""
