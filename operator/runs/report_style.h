// The style sheet of report_page(). Colours: Okabe and Ito's, which colour-blind readers tell
// apart.
#pragma once

namespace lockstep::runs {

inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1d2329; --soft: #5c6670; --edge: #d9dee3;
  --card: #f6f8fa; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e6e9ec; --soft: #98a2ad;
  --edge: #343b43; --card: #1c2228; --c0: #4ba3d8; --c1: #f0803c; --c2: #2cbd93; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1400px; padding: 24px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 10px; }
small, .soft, .none { color: var(--soft); }
code, pre, td.value { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
pre { background: var(--card); border: 1px solid var(--edge); border-radius: 6px; padding: 10px;
  white-space: pre-wrap; margin: 8px 0; }
.badge { display: inline-block; border-radius: 999px; padding: 2px 12px; font-size: 14px; color: #fff;
  vertical-align: middle; background: #5c6670; }
.finished { background: #00734f; } .failed { background: #b3261e; } .stopped { background: #8a5a00; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin: 18px 0; }
.facts div, figure, .trouble { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 10px 12px; }
.facts b { display: block; font-size: 20px; overflow-wrap: anywhere; }
.trouble { border-left: 5px solid #b3261e; margin: 14px 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 14px; }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 6px; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.axis { stroke: var(--soft); } .grid { stroke: var(--edge); }
.mark { stroke: var(--c1); stroke-dasharray: 4 3; }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.line0 { stroke: var(--c0); } .line1 { stroke: var(--c1); } .line2 { stroke: var(--c2); }
.line3 { stroke: var(--c3); } .line4 { stroke: var(--c4); } .line5 { stroke: var(--c5); }
circle { fill: none; stroke-width: 3; }
.area0, .key0 { fill: var(--c0); background: var(--c0); } .area1, .key1 { fill: var(--c1); background: var(--c1); }
.area2, .key2 { fill: var(--c2); background: var(--c2); } .area3, .key3 { fill: var(--c3); background: var(--c3); }
.area4, .key4 { fill: var(--c4); background: var(--c4); } .area5, .key5 { fill: var(--c5); background: var(--c5); }
.legend { margin: 6px 0 0; font-size: 13px; } .legend span { margin-right: 14px; white-space: nowrap; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
summary { cursor: pointer; font-weight: 600; margin: 6px 0; }
)";

}  // namespace lockstep::runs
