// Elements of the page. Text is set as text; there is no way to HTML here.

export const $ = (id) => document.getElementById(id);

/** Makes an element; properties are set on it, `aria-…` and `data-…` as attributes. */
export function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
        if (key.includes("-") || key === "role") element.setAttribute(key, value);
        else element[key] = value;
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
}

/** Shows the items in this order. Elements of items that stay are kept, and with them focus and selection. */
export function show(parent, items, keyOf, create, update) {
    const known = new Map([...parent.children].map((element) => [element.dataset.key, element]));
    let after = null;
    for (const item of items) {
        const key = String(keyOf(item));
        let element = known.get(key);
        if (!element) {
            element = create(item);
            element.dataset.key = key;
        }
        known.delete(key);
        update(element, item);
        const next = after ? after.nextSibling : parent.firstChild;
        if (next !== element) parent.insertBefore(element, next);
        after = element;
    }
    for (const element of known.values()) element.remove();
}

/** Sets text only when it is another: a live region would be read again. */
export function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
}
