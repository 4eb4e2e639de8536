"""The source of a measurement that keeps a budget at any level of detail: `headway.linux.sources` lists its parts."""

from .source import BudgetSource

__all__ = ["BudgetSource"]
