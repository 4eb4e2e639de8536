"""Recordings on disk: every transition of every thread, in a folder of Parquet files."""
