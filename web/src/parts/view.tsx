// The frame of a view: its heading, a sentence that says what it shows, and its content.

import type { ComponentChildren } from "preact";

export interface ViewProps {
    id: string;
    title: string;
    says: ComponentChildren;
    children: ComponentChildren;
}

export function View({ id, title, says, children }: ViewProps) {
    return (
        <section id={id} class="view" aria-labelledby={`${id}-title`}>
            <h2 id={`${id}-title`}>{title}</h2>
            <p class="says">{says}</p>
            {children}
        </section>
    );
}
