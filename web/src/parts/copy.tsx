// A Wireshark display filter with a button that copies it.

import { useRef, useState } from "preact/hooks";
import { visible } from "../visible.ts";
import { useKept } from "./kept.ts";

export function CopyFilter({ filter }: { filter: string }) {
    const code = useRef<HTMLElement>(null);
    const [state, setState] = useState("");
    const isKept = useKept();
    const copy = async () => {
        const isCopied = await copied(visible(filter), code.current);
        setState(isCopied ? "Copied." : "Selected: press Ctrl-C.");
    };
    if (!isKept) {
        return null;
    }
    return (
        <p class="filter">
            <button type="button" onClick={copy}>
                Copy Wireshark filter
            </button>{" "}
            <code ref={code}>{visible(filter)}</code> <output>{state}</output>
        </p>
    );
}

/** Copies the text, or selects it where the browser does not allow that. */
async function copied(text: string, element: HTMLElement | null): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        if (element) {
            getSelection()?.selectAllChildren(element);
        }
        return false;
    }
}
