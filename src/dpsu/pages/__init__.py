"""Forecasts and comparisons as web pages, each one file that needs nothing from elsewhere."""

from dpsu.pages.comparisons import comparison_page
from dpsu.pages.forecasts import forecast_page

__all__ = ["comparison_page", "forecast_page"]
