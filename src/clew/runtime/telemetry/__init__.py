"""Telemetry: what turns, steps, commits and jobs tell observers and OpenTelemetry while they work."""
