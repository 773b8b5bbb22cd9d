// Formulas are marked by the site's build and typeset here, by the KaTeX that lies beside: nothing
// is fetched from elsewhere.
const SHORT = 24;

// A browser may break a line on either side of a formula: "x's" must stay one word.
function keepTogether(formula) {
  const before = formula.previousSibling;
  const after = formula.nextSibling;
  const box = document.createElement("span");
  box.className = "unbroken";
  formula.replaceWith(box);
  const head = before instanceof Text ? /\S*$/.exec(before.data)[0] : "";
  const tail = after instanceof Text ? /^\S*/.exec(after.data)[0] : "";
  if (head) before.data = before.data.slice(0, -head.length);
  if (tail) after.data = after.data.slice(tail.length);
  box.append(head, formula, tail);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    const marked = formula.textContent;
    const displayMode = marked.startsWith("\\[");
    katex.render(marked.slice(2, -2), formula, { displayMode, throwOnError: false });
    if (!displayMode && marked.length < SHORT) keepTogether(formula);
  }
});
