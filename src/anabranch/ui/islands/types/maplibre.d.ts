// The library is a file beside the compiled scripts; its types are of the package that the file is from.
declare module "*/vendor/maplibre-gl.mjs" {
  export * from "maplibre-gl";
}
