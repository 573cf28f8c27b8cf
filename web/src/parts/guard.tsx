// A view that cannot be drawn says so, and the others stand.

import { Component, type ComponentChildren } from "preact";
import { visible } from "../visible.ts";

interface Props {
    name: string;
    children: ComponentChildren;
}

interface State {
    error: string | null;
}

export class Guard extends Component<Props, State> {
    override state: State = { error: null };

    override componentDidCatch(error: Error) {
        this.setState({ error: error.message });
    }

    override render({ name, children }: Props, { error }: State) {
        if (error === null) {
            return children;
        }
        return (
            <section class="failure" role="alert" aria-label={name}>
                <p>
                    The view “{name}” cannot be shown: its data are not as expected (
                    {visible(error)}).
                </p>
            </section>
        );
    }
}
