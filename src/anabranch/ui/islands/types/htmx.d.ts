// What the pages use of htmx 2, which is loaded as a script of its own.
interface HtmxRequest extends CustomEvent {
  detail: {
    elt: HTMLElement;
    target: HTMLElement;
    path: string;
    headers: Record<string, string>;
    xhr: XMLHttpRequest;
    shouldSwap: boolean;
    isError: boolean;
    requestConfig: { triggeringEvent?: Event };
  };
}

declare const htmx: {
  swap(target: string | Element, content: string, how: { swapStyle: string }): void;
  trigger(element: string | Element, name: string, detail?: unknown): void;
  process(element: Element): void;
  ajax(verb: string, path: string, context: { target?: string | Element; source?: Element; swap?: string; values?: object }): Promise<void>;
};
