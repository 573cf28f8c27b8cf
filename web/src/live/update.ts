// Replacing of the parts of the page that the command made, by those of another version.

/** Makes the page say what another version says. What is opened, focused or selected stays. */
export function update(fresh: Document) {
    document.title = fresh.title;
    for (const part of ["body > header", "#verdict", "#time", "#tables"]) {
        const [old, next] = [document, fresh].map((page) => page.querySelector(part));
        if (old && next) {
            become(old, next);
        } else if (next) {
            // Before the first exchange, no time has passed.
            document.getElementById("views")?.before(document.importNode(next, true));
        }
    }
}

/** Makes an element equal to another one, and touches only what differs. */
export function become(old: Element, next: Element) {
    for (const { name, value } of next.attributes) {
        if (old.getAttribute(name) !== value) {
            old.setAttribute(name, value);
        }
    }
    for (const { name } of [...old.attributes]) {
        // Details are opened by the reader.
        if (name !== "open" && !next.hasAttribute(name)) {
            old.removeAttribute(name);
        }
    }
    next.childNodes.forEach((node, i) => {
        const before = old.childNodes[i];
        if (before?.nodeName !== node.nodeName) {
            const made = document.importNode(node, true);
            before ? before.replaceWith(made) : old.append(made);
        } else if (node.nodeType === Node.ELEMENT_NODE) {
            become(before as Element, node as Element);
        } else if (before.nodeValue !== node.nodeValue) {
            before.nodeValue = node.nodeValue;
        }
    });
    while (old.childNodes.length > next.childNodes.length) {
        old.lastChild?.remove();
    }
}
