// CodeMirror in the place of a text area, which keeps the text for the form.
//
// The editor is in a shadow root: there it uses constructed style sheets, which `style-src 'self'` allows.

import * as cm from "../vendor/codemirror/codemirror.min.js";

const MODES = { toml: cm.toml, py: cm.python, cpp: cm.cpp, cu: cm.cpp, hip: cm.cpp };
const INDENT = 4;

const colours = cm.HighlightStyle.define([
  { tag: [cm.tags.comment, cm.tags.meta], color: "var(--ink-3)", fontStyle: "italic" },
  { tag: [cm.tags.keyword, cm.tags.operatorKeyword, cm.tags.modifier], color: "var(--blue)" },
  { tag: [cm.tags.string, cm.tags.special(cm.tags.string)], color: "var(--green)" },
  { tag: [cm.tags.number, cm.tags.bool, cm.tags.atom], color: "var(--red)" },
  { tag: [cm.tags.propertyName, cm.tags.typeName, cm.tags.definition(cm.tags.variableName)], color: "var(--pink)" },
]);

const theme = cm.EditorView.theme({
  "&": { fontSize: "var(--small)", color: "var(--ink)", backgroundColor: "var(--panel)", height: "70vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--ink-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--blue) 8%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    { backgroundColor: "var(--blue-wash)" },
});

/** Types over a selection by a change of the text: the browser's own way adds inline styles, which the policy refuses. */
function typeOver(event, view) {
  if (event.inputType !== "insertText" || event.data === null || view.state.selection.ranges.every((range) => range.empty)) return false;
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  event.preventDefault();
  return true;
}

export function replaceTextarea(area, path) {
  const host = document.createElement("div");
  host.className = "editor";
  const root = host.attachShadow({ mode: "open" });
  const mode = MODES[path.split(".").pop()];
  const state = cm.EditorState.create({
    doc: area.value,
    extensions: [
      cm.lineNumbers(), cm.highlightActiveLine(), cm.highlightActiveLineGutter(), cm.highlightSpecialChars(),
      cm.history(), cm.drawSelection(), cm.bracketMatching(), cm.indentUnit.of(" ".repeat(INDENT)),
      cm.EditorState.tabSize.of(INDENT),
      cm.keymap.of([...cm.defaultKeymap, ...cm.historyKeymap, cm.indentWithTab]),
      ...(mode ? [cm.StreamLanguage.define(mode)] : [cm.EditorView.lineWrapping]),
      cm.syntaxHighlighting(colours), theme,
      cm.EditorView.contentAttributes.of({ "aria-label": `Text of ${path}`, tabindex: "0" }),
      cm.EditorView.domEventHandlers({ beforeinput: typeOver }),
      cm.EditorView.updateListener.of((update) => {
        if (!update.docChanged) return;
        area.value = update.state.doc.toString();
        area.dispatchEvent(new Event("input"));
      }),
    ],
  });
  const view = new cm.EditorView({ state, parent: root, root });
  area.before(host);
  area.hidden = true;
  document.querySelector(`label[for="${area.id}"]`)?.addEventListener("click", () => view.focus());
  return view;
}
