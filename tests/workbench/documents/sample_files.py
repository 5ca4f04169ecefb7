"""Small files of every kind that documents come as, whole and damaged, made by code."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    return pdf_of([f"BT /F1 12 Tf 10 10 Td ({page}) Tj ET".encode() for page in pages])


def pdf_of(contents: Sequence[bytes], filters: str = "") -> bytes:
    """A PDF whose pages are drawn by these streams."""
    count = len(contents)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, content in enumerate(contents):
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents {5 + 2 * number} 0 R"
        objects.append(f"{page}/Resources<</Font<</F1 3 0 R>>>>>>".encode())
        objects.append(f"<</Length {len(content)}{filters}>>stream\n".encode() + content + b"\nendstream")
    return _file(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    out, places = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>"
    return out + f"{end}\nstartxref\n{len(out)}\n%%EOF".encode()


def scanned_pdf() -> bytes:
    """A PDF with two pages of pictures."""
    picture = b"q 99 0 0 99 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x7f EI Q"
    return pdf_of([picture, picture])


def locked_pdf(password: str) -> bytes:
    """A PDF that opens with a password."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter()
    writer.append(PdfReader(io.BytesIO(pdf("A secret"))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def endless_pdf() -> bytes:
    """A small PDF that takes minutes to read: one page with millions of lines."""
    lines = zlib.compress(b"BT /F1 12 Tf " + b"(a) Tj 1 2 Td " * 4_000_000 + b"ET", 9)
    return pdf_of([lines], "/Filter/FlateDecode")


def looped_pdf() -> bytes:
    """A PDF whose tree of pages leads back to itself."""
    return _file([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R]/Count 1>>"])


PAGE = """<!doctype html><html><head><title>The  sea</title><style>p {color: red}</style></head>
<body><h1>Tides and <b>moons</b></h1><p>Twice a day the <i>water</i> comes.</p>
<ul><li>spring tide</li><li>neap tide</li></ul><table><tr><td>Oslo</td><td>1 m</td></tr></table>
<h2>Waves</h2><pre>high
  low</pre><script>alert("no")</script><img alt="a map" src="x.png"></body></html>"""

MARKDOWN = """# The sea

Twice a day the water comes.

## Waves

```
# no heading
```

They are high, and waving.
"""
