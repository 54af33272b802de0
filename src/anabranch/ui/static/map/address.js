// The chosen item and the view, after the # of the page's address: it can be shared, reloaded and gone back to.
export function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const [collection, id] = [given.get("collection"), given.get("item")];
  const [zoom, lat, lon] = (given.get("map") ?? "").split("/").map(Number);
  const isView = [zoom, lat, lon].every(Number.isFinite) && Math.abs(lat) <= 90;
  return { item: collection && id ? { collection, id } : null, view: isView ? { zoom, center: { lng: lon, lat } } : null };
}

// Another item is a step that the back button goes back; a move of the map is none.
export function writeAddress(item, view, { step = false } = {}) {
  const chosen = item ? [`${new URLSearchParams({ collection: item.collection, item: item.id })}`] : [];
  const seen = view ? [`map=${view.zoom.toFixed(2)}/${view.center.lat.toFixed(5)}/${view.center.lng.toFixed(5)}`] : [];
  const address = `#${[...chosen, ...seen].join("&")}`;
  if (address === location.hash) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
