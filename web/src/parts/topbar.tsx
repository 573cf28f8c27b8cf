// The bar at the top: links to the views, the theme, and the help on keys.

import { type RefObject, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isDark } from "./hooks.ts";

interface Link {
    id: string;
    link: string;
}

/** Sections that the page has without the script. */
const STATIC: Link[] = [
    { id: "verdict", link: "verdict" },
    { id: "time", link: "time" },
];

/** Puts the bar before everything else on the page, where the keyboard comes first. */
export function showTopBar(links: Link[]) {
    const present = STATIC.filter(({ id }) => document.getElementById(id));
    let place = document.getElementById("top");
    if (!place) {
        place = document.createElement("div");
        place.id = "top";
        document.body.prepend(place);
    }
    render(<TopBar links={[...present, ...links]} />, place);
}

function TopBar({ links }: { links: Link[] }) {
    const help = useRef<HTMLDialogElement>(null);
    useKeys(links, help);
    return (
        <>
            <nav aria-label="Views">
                {links.map(({ id, link }) => (
                    <a key={id} href={`#${id}`}>
                        {link}
                    </a>
                ))}
                <Theme />
                <button type="button" onClick={() => help.current?.showModal()} aria-label="Keys">
                    ?
                </button>
            </nav>
            <dialog ref={help} aria-labelledby="help-title">
                <Help links={links} />
            </dialog>
        </>
    );
}

/** The theme follows the system until it is chosen here; nothing is stored. */
function Theme() {
    const [dark, setDark] = useState(isDark());
    const toggle = () => {
        document.documentElement.dataset.theme = dark ? "light" : "dark";
        setDark(!dark);
    };
    return (
        <button type="button" onClick={toggle}>
            {dark ? "light" : "dark"}
        </button>
    );
}

/** `?` opens the help, a digit goes to a view. */
function useKeys(links: Link[], help: RefObject<HTMLDialogElement | null>) {
    useEffect(() => {
        const onKey = (event: KeyboardEvent) => {
            if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) {
                return;
            }
            if (event.key === "?") {
                help.current?.showModal();
            }
            const link = /^[1-9]$/.test(event.key) ? links[Number(event.key) - 1] : undefined;
            if (link) {
                location.hash = link.id;
            }
        };
        addEventListener("keydown", onKey);
        return () => removeEventListener("keydown", onKey);
    }, [links, help]);
}

function isTyping(target: EventTarget | null): boolean {
    return target instanceof HTMLElement && target.matches("input, select, textarea");
}

function Help({ links }: { links: Link[] }) {
    const keys: [string, string][] = [
        ["?", "this help"],
        ...links
            .slice(0, 9)
            .map(({ link }, i): [string, string] => [String(i + 1), `go to “${link}”`]),
        ["Tab", "next part of the page"],
        ["← → ↑ ↓", "in “over time”: move the selection; in charts: move the cursor"],
        ["Shift + ← → ↑ ↓", "in “over time”: change the size of the selection"],
        ["Esc", "remove the selection, close this help"],
        ["↑ ↓ Page Home End", "in the list of exchanges: move"],
        ["Enter", "in the list of exchanges: open one"],
    ];
    return (
        <form method="dialog">
            <h2 id="help-title">Keys</h2>
            <dl>
                {keys.map(([key, words]) => (
                    <div key={key}>
                        <dt>
                            <kbd>{key}</kbd>
                        </dt>
                        <dd>{words}</dd>
                    </div>
                ))}
            </dl>
            <button type="submit">Close</button>
        </form>
    );
}
