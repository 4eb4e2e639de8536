"""Recordings on disk: every transition of every thread, in a folder of Parquet files."""

from headway.extras import need

need("recording")
