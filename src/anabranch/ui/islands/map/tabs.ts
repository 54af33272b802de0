// Tabs of a panel: buttons that name the parts that they show.
export interface Tabs { show(name: string): void }

export function startTabs(place: HTMLElement): Tabs {
  const tabs = [...place.querySelectorAll<HTMLButtonElement>("[role=tab]")];
  const show = (name: string): void => {
    for (const tab of tabs) {
      const isShown = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls") ?? "")!.hidden = !isShown;
    }
  };
  for (const [at, tab] of tabs.entries()) {
    tab.addEventListener("click", () => show(tab.dataset.tab ?? ""));
    tab.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const other = by && tabs[(at + by + tabs.length) % tabs.length];
      if (!other) return;
      other.click();
      other.focus();
    });
  }
  return { show };
}
