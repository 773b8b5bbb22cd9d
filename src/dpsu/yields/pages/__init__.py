"""Forecasts and comparisons as web pages, each one file that needs nothing from elsewhere."""

from dpsu.yields.pages.comparisons import comparison_page
from dpsu.yields.pages.forecasts import forecast_page

__all__ = ["comparison_page", "forecast_page"]
