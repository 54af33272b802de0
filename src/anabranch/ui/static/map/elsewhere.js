// Made by `make pages` from src/anabranch/ui/islands.
import{at as c,itemUrl as y}from"./catalog.js";import{find as d,make as p,saveText as u}from"./dom.js";import{isOurs as f}from"./facts.js";const g=d("#elsewhere");let o=null;d("#qgis").addEventListener("click",()=>o?.drawing&&u(h(o.item,o.drawing),`${o.item.id}.qlr`,"application/xml")),d("#notebook").addEventListener("click",()=>o&&u(A(o.item),`${o.item.id}.ipynb`,"application/x-ipynb+json"));function C(e,r){o={item:e,drawing:r},d("#qgis").toggleAttribute("disabled",!r);const a=$(e,r).map(([t,n],s)=>[p("dt",{},t),p("dd",{},p("code",{id:`address-${s}`},n)," ",p("button",{type:"button","data-copy":`#address-${s}`,"aria-label":`Copy: ${t}`},"Copy"))]);g.replaceChildren(...a.flat())}function $(e,r){const a=[];r&&a.push([r.kind==="raster"?"Tiles (XYZ)":"Vector tiles",r.address],["TileJSON",r.tilejson]),e.layer&&a.push(["Features (OGC API)",c("features")]);const t=e.rasters.find(([,n])=>f(n.href));return t&&a.push(["GDAL",`/vsicurl/${t[1].href}`]),[...a,["STAC item",y(e.collection,e.id)]]}const m=e=>e.replace(/[<>&"']/g,r=>`&#${r.codePointAt(0)};`);function h(e,r){const a=`anabranch_${e.id.replace(/\W/g,"_")}`,t=r.kind==="raster",n=t?`type=xyz&url=${encodeURIComponent(r.address)}&zmin=${r.minzoom}&zmax=${r.maxzoom}`:` pagingEnabled='true' restrictToRequestBBOX='1' srsname='OGC:CRS84' typename='${e.layer}' url='${c("features")}' version='OGC_API_FEATURES'`,s=t?"wms":"OAPIF",[i,l]=[m(e.title),m(n)];return`<!DOCTYPE qgis-layer-definition>
<qlr>
  <layer-tree-group name="">
    <layer-tree-layer id="${a}" name="${i}" checked="Qt::Checked" providerKey="${s}" source="${l}"/>
  </layer-tree-group>
  <maplayers>
    <maplayer type="${t?"raster":"vector"}"${t?"":' geometry="Unknown"'}>
      <id>${a}</id>
      <datasource>${l}</datasource>
      <layername>${i}</layername>
      <provider${t?"":' encoding="UTF-8"'}>${s}</provider>
    </maplayer>
  </maplayers>
</qlr>
`}function A(e){const r=e.layer?["import geopandas",`features = geopandas.read_file("OAPIF:${c("features")}", layer=${JSON.stringify(e.layer)})`,"features.head()"]:["import rasterio","",'cog = next(asset for asset in item.assets.values() if "data" in (asset.roles or []))',"with rasterio.open(cog.href) as raster:","    values = raster.read(1, out_shape=(256, 256), masked=True)","    print(raster.crs, raster.shape, values.min(), values.max())"],a=["import os","","from pystac_client import Client","",'key = os.environ.get("ANABRANCH_API_KEY")','headers = {"Authorization": f"Bearer {key}"} if key else {}',"if key:  # GDAL sends it, too",'    os.environ["GDAL_HTTP_HEADERS"] = f"Authorization: Bearer {key}"',`catalog = Client.open("${c("stac")}", headers=headers)`,`item = catalog.get_collection(${JSON.stringify(e.collection)}).get_item(${JSON.stringify(e.id)})`,"item"],t=s=>({cell_type:"code",execution_count:null,metadata:{},outputs:[],source:s.map((i,l)=>l<s.length-1?`${i}
`:i)}),n={cell_type:"markdown",metadata:{},source:[`# ${e.title}
`,`
`,"Needs `pystac-client` and `",e.layer?"geopandas":"rasterio","`. Where keys are required, set `ANABRANCH_API_KEY`."]};return JSON.stringify({cells:[n,t(a),t(r)],metadata:{kernelspec:{display_name:"Python 3",language:"python",name:"python3"}},nbformat:4,nbformat_minor:5},null,1)}export{C as showElsewhere,h as writeLayerFile,A as writeNotebook};
