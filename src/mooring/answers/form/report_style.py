"""The style of a report: light, dark where the reader prefers that, and plain on paper."""

import base64
import hashlib

_LIGHT = """--page:#fff;--text:#1b1f24;--muted:#57606a;--line:#d0d7de;--band:#f4f6f8;
--c0:#0072b2;--c1:#b84700;--c2:#007a5a;--c3:#a0408a;--c4:#7a5c00;--c5:#555b61"""
_DARK = """--page:#10151a;--text:#e6e9ec;--muted:#a3adb8;--line:#38424d;--band:#182028;
--c0:#56b4e9;--c1:#ff9d5c;--c2:#3ddbb0;--c3:#e79fd3;--c4:#e6c34a;--c5:#c8ccd0"""
"""Colours after Okabe and Ito, whose colours the colour-blind can tell apart; a test knows their contrast to the page."""
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 4", "12 4")
"""Curves differ on paper without colours, too."""


def _series(number: int, dashes: str) -> str:
    line = f"svg .line.c{number}{{stroke:var(--c{number});stroke-dasharray:{dashes}}}"
    return f"{line}\nsvg .bar.c{number}{{fill:var(--c{number})}}"


STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
body{{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}}
h1{{font-size:1.6rem;margin:0}}
h2{{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}}
a{{color:var(--c0)}}
code{{font-family:ui-monospace,monospace;font-size:.9em}}
.made,.more{{color:var(--muted);font-size:.875rem}}
.summary p{{margin:.25rem 0}}
.summary p:first-child{{font-size:1.15rem;font-weight:600}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;list-style:none}}
.plots{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr));gap:1.5rem}}
figure{{margin:0;break-inside:avoid}}
figcaption,caption{{font-weight:600;text-align:left;padding:.5rem 0;font-size:1rem}}
svg{{display:block;width:100%;max-width:44rem;height:auto;font:13px system-ui,sans-serif}}
svg text{{fill:var(--text)}}
svg .end{{text-anchor:end}}
svg .middle{{text-anchor:middle}}
svg .grid{{stroke:var(--line)}}
svg .axis{{stroke:var(--muted)}}
svg .line{{fill:none;stroke-width:2}}
{chr(10).join(_series(number, dashes) for number, dashes in enumerate(_DASHES))}
.scroll{{overflow-x:auto;margin:1rem 0}}
table{{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}}
th,td{{padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top;min-width:3rem;max-width:48rem;
border-bottom:1px solid var(--line)}}
thead th{{color:var(--muted);white-space:nowrap}}
tbody th{{font-weight:400}}
tbody tr:nth-child(even){{background:var(--band)}}
.number{{text-align:right;white-space:nowrap}}
@media print{{
:root{{color-scheme:light;{_LIGHT}}}
body{{max-width:none;padding:0;font-size:10pt}}
nav{{display:none}}
.plots{{grid-template-columns:1fr 1fr}}
.scroll{{overflow:visible}}
table{{font-size:8pt}}
th,td{{overflow-wrap:anywhere;padding-right:.4rem;min-width:0}}
thead th,.number{{white-space:normal}}
thead{{display:table-header-group}}
tr{{break-inside:avoid}}
}}
"""


def style_hash() -> str:
    """The source of the style for a content security policy: no other style and no style attribute is applied."""
    return f"sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}"
