"""The API over any store: a database of threads, a thread, its logs, records, jobs and search."""
