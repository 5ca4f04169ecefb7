"""The workbench: an interpreter that stays warm, a volume that lasts, documents, memory and artifacts."""
