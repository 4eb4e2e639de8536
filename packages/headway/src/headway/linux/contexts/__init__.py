"""The contexts of OpenTelemetry that processes publish for observers: of the process, and of each of its threads."""
