// The parts of CodeMirror 6 that the editor of drafts uses, bundled to codemirror.min.js.

export { EditorState } from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars,
  drawSelection,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching, indentUnit } from "@codemirror/language";
export { tags } from "@lezer/highlight";
export { python } from "@codemirror/legacy-modes/mode/python";
export { cpp } from "@codemirror/legacy-modes/mode/clike";
export { toml } from "@codemirror/legacy-modes/mode/toml";
