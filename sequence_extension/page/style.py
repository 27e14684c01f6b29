"""The style sheets."""

from sequence_extension.figures.palette import PALETTE


def editor_css() -> str:
    """Style of the editor of section 2; the colours are those of `style_sheet`."""
    return """
.edit-turn{border:1px solid var(--border);border-radius:8px;padding:4px 14px 12px;
  margin:0 0 12px;min-width:0}
.edit-turn legend{font-weight:600;padding:0 6px;margin-left:-6px}
.edit-turn legend span{font-weight:400;margin-left:.35em}
.edit-fields{display:grid;grid-template-columns:repeat(12,minmax(0,1fr));gap:8px 14px}
.edit-field{min-width:0}
.edit-field[hidden]{display:none}
.edit-history,.edit-ac,.edit-logprobs{grid-column:span 4}
.edit-reward,.edit-masked{grid-column:span 2}
.edit-masked{padding-top:26px}
.edit-edits,.edit-edits[hidden]+.edit-ob{grid-column:span 8}
.edit-ob,.edit-history[hidden]~.edit-ob{grid-column:span 12}
.edit-hint{font-size:.8rem;margin:2px 0 0;color:var(--muted-foreground)}
.edit-issue{font-size:.875rem;line-height:1.35;margin:4px 0 0;overflow-wrap:anywhere}
.edit-issue b{display:inline-block;min-width:1.35em;text-align:center;border-radius:4px;
  background:var(--seq-look);color:var(--seq-look-ink)}
.edit-issue-bad b{background:var(--seq-break);color:var(--seq-break-ink)}
.edit-foot{display:flex;gap:14px;align-items:end;justify-content:flex-end;margin-top:10px}
.edit-chips{display:flex;gap:3px;overflow-x:auto;list-style:none;margin:0;padding:0 0 6px;
  flex:1;min-width:0}
[class^=edit-chip-]{flex:none;min-width:34px;margin:0;padding:2px 5px 3px;border-radius:5px;
  display:flex;flex-direction:column;line-height:1.25;text-align:center;
  border:1px solid transparent;font-variant-numeric:tabular-nums}
.edit-chips small{display:flex;justify-content:space-between;gap:6px;font-size:10px}
.edit-chips span{font-size:13px;font-weight:600}
.edit-chips i{font-size:11px;font-style:normal;white-space:pre;min-height:14px}
.edit-chip-observation{background:var(--seq-observation);color:var(--seq-observation-ink)}
.edit-chip-action{background:var(--seq-action);color:var(--seq-action-ink)}
.edit-chip-masked{background:var(--seq-masked);color:var(--seq-masked-ink)}
.edit-chip-break,.edit-chip-end{background:var(--seq-break);color:var(--seq-break-ink)}
.edit-chip-held{background:var(--seq-zero);color:var(--seq-zero-ink)}
.edit-chip-gap{justify-content:center}
.edit-bar{display:flex;flex-wrap:wrap;gap:8px;align-items:end;margin:0 0 12px}
.edit-lesson{margin:0 0 14px}
.edit-lanes{overflow-x:auto;margin:8px 0}
.edit-lanes table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
.edit-lanes caption{text-align:left;font-weight:600;padding-bottom:4px}
.edit-lanes th,.edit-lanes td{padding:3px 8px;text-align:right;white-space:nowrap;
  border-bottom:1px solid var(--border)}
.edit-lanes th{font-weight:400;color:var(--muted-foreground)}
.edit-lanes th:first-child{text-align:left;padding-left:0}
@media (max-width:640px){
  .edit-turn .edit-field.edit-field{grid-column:span 12}
  .edit-turn .edit-field.edit-reward,.edit-turn .edit-field.edit-masked{grid-column:span 6}
  .edit-foot{flex-wrap:wrap}
  .edit-chips{flex-basis:100%}
}
"""


def style_sheet() -> str:
    """CSS of chips, notes, figures, tables and questions; colours from palette and theme.

    A static page never connects to a kernel, and says so in the page, not in Python: what
    cannot work there gives way to what can.

    Cell colours are the same in both themes (ink on fill); all else takes the theme's own
    variables, so nothing here knows which theme is on. `seq-static-only` and `seq-live-only`
    tell a static page from one with Python behind it: only an export holds a code hash.
    A static page with code mounts an editor for every cell, and each makes the browser style
    the page anew, so what is folded or out of sight is kept out of that (else: a minute's wait).
    """
    colors = "".join(
        f"--seq-{name}:{entry['fill']};--seq-{name}-ink:{entry['ink']};"
        for name, entry in PALETTE.items()
    )
    return (
        f":root{{{colors}}}"
        + """
.seq-chip{display:inline-flex;align-items:baseline;gap:.3em;padding:.05em .45em;margin:.1em;
  border-radius:.3em;font-size:.85em;line-height:1.5;white-space:nowrap;max-width:100%;
  background:var(--seq-zero);color:var(--seq-zero-ink)}
.seq-chip>small{font-size:.8em;font-weight:600}
.seq-chips{display:flex;flex-wrap:wrap;gap:.15em;align-items:center}
.seq-note{margin:.5em 0;padding:.4em .8em;border-left:4px solid var(--seq-axis);
  border-radius:0 .3em .3em 0;color:var(--foreground);
  background:color-mix(in srgb,var(--foreground) 7%,transparent);
  overflow-wrap:anywhere}
.seq-look{border-left-color:currentColor}
.seq-error{border-left-color:var(--seq-break)}
.seq-note>b:first-child{margin-right:.4em}
.static-only,.quiz-static,#App[data-connection-state="NOT_STARTED"] .quiz-live{display:none}
#App[data-connection-state="NOT_STARTED"] .static-only{display:inline}
#App[data-connection-state="NOT_STARTED"] .quiz-static{display:block}
.quiz-grid{display:grid;gap:2rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr))}
.quiz-card{min-width:0;padding-left:1rem;border-left:3px solid var(--seq-axis)}
.quiz-turns{white-space:normal;padding:.8em 1em;border-radius:4px;
  background:color-mix(in srgb,var(--foreground) 7%,transparent)}
.quiz-turns span{display:block;white-space:pre-wrap;padding-left:14ch;text-indent:-14ch}
.quiz-live{max-width:28rem}
.quiz-right{border-left-color:var(--seq-positive)}
.quiz-wrong{border-left-color:var(--seq-break)}
.quiz-sign{padding:.02em .55em;border-radius:.3em;font-size:.88em;font-weight:600;
  background:var(--seq-break);color:var(--seq-break-ink)}
.quiz-sign-right{background:var(--seq-positive);color:var(--seq-positive-ink)}
.quiz-static summary{cursor:pointer;font-weight:600}
.seq-figure{margin:.75em 0;max-width:100%}
.seq-figure>figcaption{margin:0 0 .35em;color:var(--foreground);font-size:.95em}
.seq-figure>figcaption>span{color:var(--muted-foreground);display:block}
.seq-body{display:flex;max-width:100%}
.seq-lanes{position:relative;flex:none;width:5.6rem;font-size:.75rem;line-height:1.1;
  color:var(--foreground);text-align:right}
.seq-lanes>span{position:absolute;right:.4rem;transform:translateY(-50%);white-space:nowrap}
.seq-scroll{overflow-x:auto;max-width:100%;min-width:0;flex:1 1 auto;
  overscroll-behavior-x:contain}
.seq-scroll>div{position:relative}
.seq-scroll:not(pre),.vega-embed:not(.has-actions){
  --shade:color-mix(in srgb,var(--seq-axis) 50%,transparent);background:
  linear-gradient(to right,var(--background) 50%,transparent) left/2.5rem 100% local,
  linear-gradient(to left,var(--background) 50%,transparent) right/2.5rem 100% local,
  linear-gradient(to right,var(--shade),transparent) left/.5rem 100%,
  linear-gradient(to left,var(--shade),transparent) right/.5rem 100%;
  background-repeat:no-repeat}
#vg-tooltip-element.vg-tooltip{background:var(--background);color:var(--foreground);
  border-color:var(--seq-axis)}
#vg-tooltip-element.vg-tooltip td.key{color:var(--muted-foreground)}
.seq-focus{position:absolute;top:0;width:13rem;height:1px;margin-left:-4.5rem;
  scroll-initial-target:nearest}
.seq-scroll::-webkit-scrollbar{height:8px}
.seq-scroll::-webkit-scrollbar-thumb{background:var(--seq-axis);border-radius:4px}
.seq-scroll:focus-visible,.seq-facts>summary:focus-visible,.vega-bind select:focus-visible,
.vega-bind input:focus-visible{outline:2px solid var(--ring,currentColor);outline-offset:2px}
.seq-facts{margin:.25em 0 .75em}
.seq-facts>summary{cursor:pointer;color:var(--muted-foreground);font-size:.9em;width:fit-content}
.seq-table{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums;
  margin:.4em 0}
.seq-table>caption{text-align:left;font-weight:600;padding:.2em 0}
.seq-title{font-weight:600;line-height:1.3;overflow-wrap:anywhere}
h1.seq-title{font:400 2.1em/1.3 var(--heading-font,inherit);margin:.6em 0}
h3.seq-title{font-size:1.15em;margin:1.5em 0 .5em}
.seq-table th,.seq-table td{padding:.2em .7em;text-align:left;border-bottom:1px solid
  var(--border);white-space:nowrap;vertical-align:top}
.seq-table th{font-weight:600;color:var(--muted-foreground)}
"""
        + "".join(f".seq-r{k} tr>:nth-last-child({k})," for k in range(1, 13))
        + """.seq-table .seq-number{text-align:right}
.seq-table .seq-long{white-space:normal;min-width:22em;max-width:40em}
.seq-table a{text-decoration:underline}
.seq-told .seq-long{min-width:14em}
.seq-rollouts td:nth-child(2){white-space:normal;overflow-wrap:anywhere;min-width:9em}
@media (max-width:640px){
  .seq-told,.seq-told>*{display:block}
  .seq-told tr{display:grid;grid-template-columns:5em 1fr auto;
    border-bottom:1px solid var(--border)}
  .seq-told tr>*{border:0}
  .seq-told tr>:last-child{grid-column:1/-1;min-width:0;max-width:none;white-space:normal}
  .seq-table th,.seq-table td{padding:.2em .5em}
}
.seq-verdicts{list-style:none;margin:.5em 0;padding:0;display:grid;gap:.5em}
.seq-verdict{border:1px solid var(--border);border-left:5px solid var(--seq-axis);
  border-radius:.35em;padding:.4em .8em;overflow-wrap:anywhere}
.seq-verdict>p{margin:0;display:flex;flex-wrap:wrap;gap:.25em .7em;align-items:baseline}
.seq-verdict>ul{margin:.2em 0 0;padding:0;list-style:none;font-size:.92em}
.seq-verdict>ul>li{margin:.15em 0}
.seq-verdict-sign{padding:.02em .55em;border-radius:.3em;background:var(--seq-zero);
  color:var(--seq-zero-ink);font-size:.88em;font-weight:600}
.seq-verdict-splits{border-left-color:var(--seq-break)}
.seq-verdict-splits .seq-verdict-sign{background:var(--seq-break);
  color:var(--seq-break-ink)}
.seq-verdict-look{border-left-color:var(--seq-look)}
.seq-verdict-look .seq-verdict-sign{background:var(--seq-look);color:var(--seq-look-ink)}
.seq-transcript{list-style:none;margin:0;padding:0;max-width:46rem}
.seq-transcript>li{--hue:var(--seq-observation);margin:.4rem 12% .4rem 0;padding:.4rem .7rem;
  border-left:4px solid var(--hue);border-radius:4px;overflow-wrap:anywhere;
  background:color-mix(in srgb,var(--hue) 14%,transparent)}
.seq-transcript>.seq-pupil{--hue:var(--seq-action);margin:.4rem 0 .4rem 12%}
.seq-transcript small{font-size:.8rem}
.seq-transcript p{margin:0}
.vega-embed:not(.has-actions){overflow-x:auto;overscroll-behavior-x:contain}
.vega-embed:has(>.vega-bindings){display:flex;flex-direction:column;align-items:flex-start}
.vega-embed>canvas{flex:none}
.vega-bindings{order:-1;display:flex;flex-wrap:wrap;gap:.4em 1.5em;position:sticky;left:0;
  max-width:100%;margin:0 0 .6em;padding:2px;font-size:.9rem;color:var(--foreground)}
.vega-bindings:empty{display:none}
.vega-bind label{display:flex;flex-wrap:wrap;align-items:center;gap:.5em;min-height:2.25em}
.vega-bind-name{font-weight:600}
.vega-bind select{font:inherit;color:var(--foreground);background:var(--background);
  border:1px solid var(--input,var(--border));border-radius:.35em;padding:.25em .5em;
  max-width:100%}
.vega-bind input[type=range]{accent-color:var(--primary);width:9em;min-height:1.75em}
.vega-bind input[type=range]+span{min-width:1.5em;font-variant-numeric:tabular-nums}
.seq-static-only{display:none}
body:has(>marimo-code-hash) .seq-static-only{display:block}
body:has(>marimo-code-hash) .seq-live-only{display:none}
body:has(>marimo-code-hash){--seq-live:none}
.marimo-cell.published:has(.seq-room),
body:has(>marimo-code:empty) .marimo-cell:has(.seq-room),.seq-own-code{display:none}
body:has(>marimo-code:empty) .seq-own-code{display:block}
@media (prefers-reduced-motion:reduce){.vega-embed *,.seq-figure *{animation:none!important;
  transition:none!important;scroll-behavior:auto!important}}
"""
    )


def widget_sheet() -> str:
    """CSS for the insides of marimo's widgets, which the page's style sheet does not reach.

    marimo hands a sheet whose title starts with its name on to the shadow root of each widget
    that it mounts afterwards. So this one is short, and stands before the first widget.
    """
    return (
        '<style title="marimo-sequence-widgets">'
        # marimo's own red is too dark on its dark page, and too pale on its light one
        ":host .text-destructive,:host .text-error{color:var(--red-11)}"
        # ten columns of numbers side by side: headings take no more than they need
        ":host(marimo-table) :is(th,td){padding-inline:.2rem}"
        ":host(marimo-table) th button{width:1rem}"
        ":host(marimo-form) form .justify-end{justify-content:flex-start;font-family:inherit}"
        "</style>"
    )
