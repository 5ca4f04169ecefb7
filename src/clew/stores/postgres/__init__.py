"""The store on PostgreSQL: one function call per append, row-level security, safe behind a pooler."""
