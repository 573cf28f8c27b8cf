// Whether a file has the packets: without one, their numbers refer to nothing.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { PageDocument } from "../document.ts";

export const Kept = createContext(true);

export function isKept({ report }: PageDocument): boolean {
    return report?.command === "analyze" || report?.capture?.written != null;
}

export function useKept(): boolean {
    return useContext(Kept);
}
