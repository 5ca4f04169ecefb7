"""The workbench: an interpreter that stays warm, a volume that lasts, documents, core memory and artifacts."""
