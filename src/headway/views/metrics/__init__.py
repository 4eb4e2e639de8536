"""What is measured now, for others to fetch: totals in a bounded number of series, OpenMetrics, OTLP and a live page.

`totals` adds the ledgers of intervals up and makes a `Snapshot` of them; `families` says which metrics that is, and
`openmetrics` and `otlp` write those; `live` is what the page shows. `site` answers requests, which `server` receives.
"""
