"""How a report looks: the style sheet and the one small script of the page.

Light or dark follows the reader's setting, a button overrides it, paper is always light. The script only serves that
button: without it everything can be read, and one policy is picked out by radio buttons that need no script.
"""

from __future__ import annotations

from numaware.machine.drawing.palette import TOKENS, variables
from numaware.simulate.plots import HUES

# What pages need beyond the drawings of machines; the web console uses the same. name: (light, dark)
PAGE_TOKENS = TOKENS | {
    "accent": ("#1557b0", "#82b6ff"),
    "accent-soft": ("#e6effb", "#1a2c45"),
    "aligned": ("#00625a", "#5cd6c6"),
    "aligned-mark": ("#0c8a80", "#35b8a8"),
    "split-mark": ("#bd7800", "#e0a030"),
    "refused": ("#9c1b15", "#ff9f96"),
    "refused-mark": ("#c9352b", "#ee6a5f"),
    "stranded": ("#c4002f", "#ff5c7c"),
}

SCRIPT = """
const root=document.documentElement,button=document.getElementById("theme");
const dark=()=>root.dataset.theme?root.dataset.theme==="dark":matchMedia("(prefers-color-scheme:dark)").matches;
const name=()=>{button.textContent=dark()?"Light":"Dark"};
button.addEventListener("click",()=>{root.dataset.theme=dark()?"light":"dark";name()});
matchMedia("(prefers-color-scheme:dark)").addEventListener("change",name);
button.hidden=false;name();
"""

_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:13px/1.45 -apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,
"Noto Sans","Helvetica Neue",Arial,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;
font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%;overflow-wrap:anywhere}
header,main,footer{max-width:1280px;margin:0 auto;padding:0 16px}
header{display:flex;gap:12px;align-items:center;min-height:48px}
header strong{font-size:15px}
header button{margin-left:auto;font:inherit;color:inherit;background:var(--surface);border:1px solid var(--line-strong);
border-radius:4px;min-height:28px;padding:0 12px;cursor:pointer}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
h1{font-size:18px;margin:8px 0 4px}
h2{font-size:18px;margin:32px 0 8px}
h3{font-size:13px;margin:0 0 4px}
h3 span,th span{font-weight:400;color:var(--text-2)}
p{margin:0 0 8px}
.quiet,small{color:var(--text-2)}
.say{font-size:22px;line-height:30px;font-weight:600;margin:12px 0 8px;max-width:1000px}
.so{font-size:15px;margin:0 0 4px;max-width:1000px}
.panel{background:var(--surface);border:1px solid var(--line);border-radius:6px;padding:12px;margin:0 0 16px;min-width:0}
.numbers{display:grid;grid-template-columns:repeat(5,1fr);padding:0;margin-top:16px}
.numbers>div{padding:12px 16px;border-left:1px solid var(--line)}
.numbers>div:first-child{border-left:0}
.numbers dt{color:var(--text-2)}
.numbers dd{margin:0}
.numbers dd:first-of-type{font-size:26px;line-height:32px;font-weight:600}
.numbers dd:first-of-type span{font-size:13px;font-weight:400}
.charts{display:grid;grid-template-columns:1fr 1fr;gap:16px;margin-bottom:16px}
.charts .panel{margin:0}
figcaption{margin-bottom:8px}
figcaption p{margin:2px 0 0;color:var(--text-2)}
.plot{display:block;width:100%;height:auto}
.plot.narrow{display:none}
.plot.wide{max-width:720px}
.plot text{fill:var(--text);font-size:11px}
.plot .q{fill:var(--text-2)}
.b{font-weight:600}
.grid{stroke:var(--line);fill:none}
.axis{stroke:var(--line-strong);fill:none}
.ideal{stroke:var(--line-strong);fill:none;stroke-dasharray:2 4}
.lead{stroke:var(--line-strong);fill:none}
.trail{fill:none;stroke-width:1.75;stroke-linejoin:round}
.band{opacity:.16}
.range{stroke:var(--text);fill:none;stroke-width:1.25}
.refused{fill:var(--refused-mark)}
.aligned{fill:var(--aligned-mark)}
.split{fill:url(#split)}
.split-ground{fill:var(--split-mark)}
.split-line{stroke:var(--surface);stroke-width:2}
.cells{fill:none}
.shade0{stroke:var(--line-strong)}
.notch{fill:var(--stranded)}
.walls{display:grid;grid-template-columns:repeat(auto-fill,minmax(280px,1fr));gap:16px}
.walls h4{margin:0 0 6px;font-size:12px;display:flex;gap:6px;align-items:center}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;margin:0 0 8px;color:var(--text-2);font-size:12px}
.legend svg{width:14px;height:10px;vertical-align:-1px;margin-right:4px}
.key{width:28px;height:12px;vertical-align:-1px;flex:none}
.pick{border:0;padding:0;margin:0 0 16px;display:flex;flex-wrap:wrap;gap:4px}
.pick legend{float:left;padding:4px 8px 4px 0;color:var(--text-2)}
.pick label{display:inline-flex;align-items:center;gap:6px;min-height:28px;padding:0 8px;border:1px solid var(--line);
border-radius:4px;background:var(--surface);cursor:pointer}
.pick label:has(:checked){border-color:var(--accent);background:var(--accent-soft)}
.pick label:has(:focus-visible){outline:2px solid var(--accent);outline-offset:2px}
.pick input{margin:0;accent-color:var(--accent)}
.scroll{overflow-x:auto;position:relative}
table{border-collapse:collapse;width:100%}
th,td{padding:5px 8px;text-align:right;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
thead th{border-top:0;font-size:12px;vertical-align:bottom}
thead th span{display:block}
th[scope=row],.left{text-align:left;overflow-wrap:anywhere}
td.left{min-width:112px}
tbody th{font-weight:600;min-width:112px;max-width:320px}
.standings tbody th{white-space:nowrap;position:sticky;left:0;background:var(--surface);overflow:hidden;
text-overflow:ellipsis;max-width:200px}
td small{display:block;white-space:nowrap}
td b:before{content:"\\2605\\a0";color:var(--accent)}
.clock{border-bottom:1px dashed var(--line-strong)}
.reasons tbody th{font-weight:400;min-width:200px}
td.heat,.reasons thead th{text-align:center}
td.heat{-webkit-print-color-adjust:exact;print-color-adjust:exact}
.reasons thead th.left{text-align:left}
details{margin-top:8px}
summary{cursor:pointer;color:var(--accent);min-height:24px}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;margin:0}
dl.facts dt{color:var(--text-2)}
dl.facts dd{margin:0}
code{font:12px ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
footer{padding-bottom:24px;color:var(--text-2)}
@media (max-width:1100px){.charts{grid-template-columns:1fr}.numbers{grid-template-columns:repeat(auto-fit,minmax(200px,1fr))}
.numbers>div,.numbers>div:first-child{border:0}}
@media (max-width:620px){header,main,footer{padding:0 12px}.say{font-size:18px;line-height:26px}
.plot.wide{display:none}.plot.narrow{display:block;max-width:460px}.numbers{grid-template-columns:1fr 1fr}
.numbers>div{padding:8px 12px}.numbers dd:first-of-type{font-size:18px;line-height:26px}
dl.facts{grid-template-columns:1fr}dl.facts dd{margin-bottom:6px}
.standings tbody th{max-width:132px;min-width:104px;white-space:normal}
.standings .key{display:none}}
@media print{body{background:none}header button,.pick,summary{display:none}.panel,figure{break-inside:avoid}
.scroll{overflow:visible}table,thead th{font-size:8px}td small{font-size:7px;white-space:normal}th,td{padding:3px 2px}
tbody th,.standings tbody th,.reasons tbody th{min-width:0;position:static;white-space:normal}td.left{min-width:0}
thead th{overflow-wrap:anywhere}.standings .key{display:none}}
@media (forced-colors:active){.plot,.key,.legend svg{forced-color-adjust:none;background:var(--surface)}}
"""


def style(policies: int) -> str:
    """The style sheet for a report on so many policies."""
    light, dark = (variables(theme, PAGE_TOKENS) for theme in (0, 1))
    return "".join(
        (
            f":root{{color-scheme:light;{light}}}",
            f"@media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}",
            f":root[data-theme=light]{{color-scheme:light;{light}}}",
            f":root[data-theme=dark]{{color-scheme:dark;{dark}}}",
            f"@media print{{:root,:root[data-theme]{{color-scheme:light;{light}}}}}",
            *(f".trail.hue{hue}{{stroke:var(--numa-{hue})}}" for hue in range(HUES)),
            *(f".plot .ink.hue{hue},.key .ink.hue{hue}{{fill:var(--numa-{hue})}}" for hue in range(HUES)),
            *(f".shade{step}{{stroke:var(--heat-{step})}}" for step in range(1, 5)),
            *(
                f"td.heat{step}{{background:var(--heat-{step});color:var(--heat-ink-{'lo' if step < 3 else 'hi'})}}"
                for step in range(5)
            ),
            *(f"main:has(#pick{at}:checked) .p:not(.p{at}){{opacity:.14}}" for at in range(policies)),
            *(
                f"main:has(#pick{at}:checked) tr.p{at}>*{{background:var(--accent-soft)}}"
                for at in range(policies)
            ),
            "".join(line for line in _RULES.splitlines()),
        )
    )
