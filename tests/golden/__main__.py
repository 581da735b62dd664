"""Write ``golden.json`` anew."""

import json
import tempfile
from pathlib import Path

from tests.golden.scenarios import everything

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        figures = everything(Path(folder).resolve())
    Path(__file__).with_name("golden.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
