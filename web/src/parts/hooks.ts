// State that depends on the browser.

import type { RefObject } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";

/** Width of A4 without the margins of the style sheet, 182 mm. */
const PAPER_PX = 687;

/** Width of an element's content, in CSS pixels; 0 until it is laid out. */
export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number] {
    const ref = useRef<T>(null);
    const [width, setWidth] = useState(0);
    useEffect(() => {
        const element = ref.current;
        if (!element) {
            return undefined;
        }
        const observer = new ResizeObserver(([entry]) => {
            setWidth(Math.floor(entry?.contentRect.width ?? 0));
        });
        observer.observe(element);
        // No observer runs between the layout for paper and the printing.
        const onPrint = () => setWidth((current) => Math.min(current, PAPER_PX));
        const onPrinted = () => setWidth(Math.floor(element.clientWidth));
        addEventListener("beforeprint", onPrint);
        addEventListener("afterprint", onPrinted);
        return () => {
            observer.disconnect();
            removeEventListener("beforeprint", onPrint);
            removeEventListener("afterprint", onPrinted);
        };
    }, []);
    return [ref, width];
}

/** A value that is made in a task of its own, after what does not need it is drawn. Undefined until
 * then. */
export function useLater<T>(make: () => T, of: unknown): T | undefined {
    const [made, setMade] = useState<T>();
    // biome-ignore lint/correctness/useExhaustiveDependencies: `make` is another function each time.
    useEffect(() => {
        const timer = setTimeout(() => setMade(make()));
        return () => clearTimeout(timer);
    }, [of]);
    return made;
}

const SCHEME = "(prefers-color-scheme: dark)";

/** A number that changes when the colours of the page change, for pictures that copy them. */
export function useTheme(): number {
    const [theme, changed] = useReducer((n: number) => n + 1, 0);
    useEffect(() => {
        const media = matchMedia(SCHEME);
        const observer = new MutationObserver(() => changed(undefined as never));
        const onMedia = () => changed(undefined as never);
        media.addEventListener("change", onMedia);
        observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
        return () => {
            media.removeEventListener("change", onMedia);
            observer.disconnect();
        };
    }, []);
    return theme;
}

/** Returns whether the page is dark now. */
export function isDark(): boolean {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia(SCHEME).matches;
}
