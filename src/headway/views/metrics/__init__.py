"""Live measurements for others to fetch: totals in a bounded number of series, OpenMetrics, OTLP and a live page.

`totals` adds up the ledgers of intervals and makes a `Snapshot` of them. `families` defines the metrics; `openmetrics`
and `otlp` write them. `live` has the page's data. `server` receives requests, and `site` answers them.
"""
