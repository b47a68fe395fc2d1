"""The page's style: system fonts, light and dark, contrast of at least 4.5 to 1."""

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--soft:#f6f8fa;--link:#0550ae;
--bad:#b3261e;--badbg:#ffebe9;--good:#116329;--goodbg:#dafbe1;--warn:#7a4d00;--warnbg:#fff4d5;--hit:#ffe58a}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){--bg:#0d1117;--fg:#e6edf3;--dim:#9da7b3;
--line:#30363d;--soft:#161b22;--link:#79c0ff;--bad:#ff9b93;--badbg:#3c1618;--good:#7ee2a0;--goodbg:#12351f;
--warn:#f0c674;--warnbg:#3a2d0b;--hit:#6b5300}}
:root[data-theme=dark]{color-scheme:dark;--bg:#0d1117;--fg:#e6edf3;--dim:#9da7b3;--line:#30363d;--soft:#161b22;
--link:#79c0ff;--bad:#ff9b93;--badbg:#3c1618;--good:#7ee2a0;--goodbg:#12351f;--warn:#f0c674;--warnbg:#3a2d0b;
--hit:#6b5300}
:root[data-theme=light]{color-scheme:light}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.35rem;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:1rem 0 .5rem}
a{color:var(--link)}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.3rem .6rem}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.5rem;margin:0}
.facts div{background:var(--soft);border:1px solid var(--line);border-radius:.4rem;padding:.4rem .6rem}
.facts .good{background:var(--goodbg)}
.facts .bad{background:var(--badbg)}
.facts .warn{background:var(--warnbg)}
.facts .good dt,.facts .bad dt,.facts .warn dt{color:inherit}
.facts .good dd,.facts .bad dd,.facts .warn dd{font-weight:600}
#said pre{max-height:12rem;font:inherit}
dt{color:var(--dim);font-size:.8rem}
dd{margin:0;overflow-wrap:anywhere}
.bar{position:sticky;top:0;z-index:1;display:flex;flex-wrap:wrap;gap:.6rem;align-items:center;background:var(--bg);
border-bottom:1px solid var(--line);padding:.6rem 0;margin-top:.8rem}
.bar input[type=search]{flex:1 1 10rem;min-width:0;max-width:20rem;
font:inherit;padding:.25rem .5rem;background:var(--bg);color:var(--fg);
border:1px solid var(--dim);border-radius:.3rem}
fieldset{border:0;padding:0;margin:0;display:flex;flex-wrap:wrap;gap:.2rem .7rem;align-items:center;min-width:0}
label{white-space:nowrap}
legend{float:left;padding:0;margin-right:.6rem;color:var(--dim)}
button{font:inherit;padding:.2rem .6rem;background:var(--soft);color:var(--fg);border:1px solid var(--dim);
border-radius:.3rem;cursor:pointer}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
#turns>details{border:1px solid var(--line);border-radius:.4rem;margin:.5rem 0}
#turns>details[hidden]{display:none}
summary{cursor:pointer;padding:.4rem .7rem;overflow-wrap:anywhere}
#turns>details>summary{background:var(--soft);border-radius:.4rem;font-weight:600}
summary .tag{margin-left:.5rem}
.tag{display:inline-block;border-radius:.3rem;padding:0 .4rem;font-size:.8rem;font-weight:600;border:1px solid}
.bad{color:var(--bad);background:var(--badbg)}
.good{color:var(--good);background:var(--goodbg)}
.warn{color:var(--warn);background:var(--warnbg)}
.dim{color:var(--dim);font-weight:400}
.event{border-top:1px solid var(--line);padding:.5rem .7rem}
.event h3{margin:0 0 .3rem;font-size:.95rem;overflow-wrap:anywhere}
.event.line{padding:.25rem .7rem}
.event.line h3{margin:0;font-weight:500}
.event details summary{padding:.2rem 0}
.pairs{margin:0;display:grid;gap:.15rem}
.pairs div{display:grid;grid-template-columns:minmax(6rem,11rem) 1fr;gap:.6rem}
.pairs dt{font-size:.9rem}
pre{margin:.3rem 0;padding:.5rem;background:var(--soft);border:1px solid var(--line);border-radius:.3rem;
overflow:auto;max-height:32rem;white-space:pre-wrap;overflow-wrap:anywhere;tab-size:4;
font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.diff span{display:block;min-height:1.45em}
.diff .add{background:var(--goodbg)}
.diff .del{background:var(--badbg)}
.diff .at{color:var(--dim)}
mark{background:var(--hit);color:inherit}
table{border-collapse:collapse;font-size:.9rem}
th,td{border:1px solid var(--line);padding:.15rem .5rem;text-align:right}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
svg{width:100%;height:9rem;background:var(--soft);border:1px solid var(--line);border-radius:.3rem}
svg .tokens{fill:var(--link);fill-opacity:.45}
svg .cost{fill:none;stroke:var(--warn);stroke-width:2.5}
footer{color:var(--dim);margin:1.5rem 0}
kbd{border:1px solid var(--dim);border-radius:.2rem;padding:0 .3rem}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media print{.bar,.skip,footer{display:none}}
"""
