// Marks and expands the results of a search in a trace.

/** Marks every `words` in the bodies of a stream's events, however they are written. */
export function markFound(stream, words) {
  const wanted = words.toLowerCase();
  const places = [];
  const texts = document.createTreeWalker(stream, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.parentElement.closest(".body")) continue;
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) places.push([node, at]);
  }
  for (const [node, at] of places.reverse()) { // the last first: what is split off a text lies behind
    const range = new Range();
    range.setStart(node, at);
    range.setEnd(node, Math.min(at + words.length, node.length));
    range.surroundContents(document.createElement("mark"));
    for (let fold = node.parentElement.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }
}
