"""Pictures of the pages for the documentation, taken in a real browser.

    python -m tools.screenshots      (needs Pillow, which the tests do not)

The forecast is of made-up users, the comparison of the made-up sample: nothing in the pictures is
private.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from tools.browser import MISSING, browser, there_is_a_browser

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
LARGEST = 200_000
WIDTH = 1000
HEIGHTS = {"forecast": 805, "compare": 1335}


def pages() -> dict[str, str]:
    """The pages to show."""
    import dpsu
    from dpsu.yields.made_up import reddit_like

    seen = dpsu.forecast(dpsu.plan(epsilon=1, delta=1e-7), users=30_000, items_per_user=15)
    counted = dpsu.Items("item", repeats="count")
    found = dpsu.compare(reddit_like(5_000), epsilon=3, delta=1e-6, item=counted)
    return {"forecast": seen.to_html(), "compare": found.to_html()}


def picture(driver: Any, height: int) -> bytes:
    """The top of the open page."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    # Flat colors: a palette keeps them, at a third of the size.
    small = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as image:
        image.convert("RGB").quantize(192).save(small, "png", optimize=True)
    return small.getvalue()


def main() -> None:
    """Take all pictures."""
    if not there_is_a_browser():
        sys.exit(MISSING)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages().items():
            path = Path(folder) / f"{name}.html"
            path.write_text(text, encoding="utf-8")
            with browser(WIDTH) as driver:
                driver.get(path.as_uri())
                image = picture(driver, HEIGHTS[name])
            if len(image) > LARGEST:
                sys.exit(f"{name}.png has {len(image):,} bytes; it should have fewer")
            (IMAGES / f"{name}.png").write_bytes(image)


if __name__ == "__main__":
    main()
