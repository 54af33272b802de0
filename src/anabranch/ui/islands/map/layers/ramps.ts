// Colour ramps by which the server draws one band, and nine of their colours each, for the legend; a test compares them.
export const RAMPS: Record<string, string> = {
  viridis: "440154 472c7b 3a528b 2c728e 20908c 27ad80 5bc862 aadb32 fde724",
  magma: "000003 1c1046 50127b 822581 b63679 e55063 fb8660 fec286 fbfcbf",
  inferno: "000003 200c4a 570f6d 892269 bb3754 e35832 f98c09 f8c931 fcfea4",
  plasma: "0c0786 4c02a1 7e03a7 a92395 cb4777 e56b5c f79341 fdc328 eff821",
  cividis: "00224d 1a386f 434e6b 61646f 7c7b78 9a9376 baac6c dcc858 fde737",
  turbo: "30123b 466be3 28bbeb 32f197 a4fc3b ecd139 fb8022 d23005 7a0402",
  gray: "000000 202020 404040 606060 808080 9f9f9f bfbfbf dfdfdf ffffff",
  terrain: "333399 0888ee 01cc66 81e57f fefd98 c0ae76 805c54 bfada9 ffffff",
  rdylgn: "a50026 de3f2e f88e52 fdd481 fefebd cde983 86cb66 2da154 006837",
  spectral: "9e0142 dc494b f88e52 fdd481 fefebe d8ef9a 89cfa4 3f96b6 5e4fa2",
  rdbu: "67001f bb2a33 e58368 faceb6 f6f6f6 c2ddeb 6bacd0 2971b1 053061",
  blues: "f7fbff ddeaf6 c5daee 9dc9e0 6aadd5 4292c6 2171b5 08519c 08306b",
  greens: "f7fcf5 e4f4df c6e8bf a0d89a 73c375 41ab5d 238b45 006d2c 00441b",
  ylorrd: "ffffcc feec9f fed875 fdb14b fc8c3b fc4e2a e31a1c bd0025 800026",
};

const REVERSED = "_r";

export const isReversed = (ramp: string): boolean => ramp.endsWith(REVERSED);
export const nameOf = (ramp: string): string => (isReversed(ramp) ? ramp.slice(0, -REVERSED.length) : ramp);
export const rampOf = (name: string, reversed: boolean): string => `${name}${reversed ? REVERSED : ""}`;

// The colours of a ramp, those of the lowest values first; none if they are not known here.
export function coloursOf(ramp: string): string[] {
  const colours = (RAMPS[nameOf(ramp)] ?? "").split(" ").filter(Boolean).map((colour) => `#${colour}`);
  return isReversed(ramp) ? colours.reverse() : colours;
}
