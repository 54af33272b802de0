-- What the features API reads. Names in braces are filled in with quoted names, conditions and literals.

-- name: layers
select name, publication::text, geometry_type, document -> 'bbox' as bbox,
       document #>> '{properties,title}' as title, document #>> '{properties,description}' as description,
       document #> '{properties,table:columns}' as columns, document #> '{properties,table:row_count}' as rows,
       count(*) over () as matched
  from app.layers
 where ($1::text is null or name = $1) and ($4::text is null or app.may_read($4, collection, public))
 order by name
 limit $2 offset $3

-- name: features
-- One page: it ends before the first feature that would make it too large. The publication is that of the rows, since
-- the view of a layer changes in the transaction that changes its publication.
with page as materialized (
    select layer.gid, format(
               '{{"type":"Feature","id":%s,"geometry":%s,"properties":%s}}',
               layer.gid, coalesce({geometry}, 'null'), {properties}
           ) as feature
      from {table} as layer
     where {condition}
     order by {order}
     limit $2 offset $3
), sized as (
    select gid, feature, row_number() over () as place,
           sum(octet_length(feature)) over (rows unbounded preceding) as bytes
      from page
)
select app.layer_publication($1, $6)::text as publication, {matched} as matched,
       (select count(*) from page) as found, count(*) as returned, max(gid) as last,
       coalesce(string_agg(feature, ',' order by place), '') as features
  from sized
 where (bytes <= $4 or place = 1) and octet_length(feature) <= $5

-- name: properties
-- No column of a layer has a name with a space.
(select to_json("the properties") from (select {columns}) as "the properties")

-- name: geometry
ST_AsGeoJSON(layer.geom)

-- name: count
(select count(*) from (select from {table} as layer where {condition} limit {limit}) as matching)

-- name: tile
select app.layer_publication($1, $9)::text as publication, (
    select ST_AsMVT("the tile", $1, {extent}, 'geom', 'gid')
      from (
          select {columns}, ST_AsMVTGeom(
                     ST_Transform(layer.geom, 3857), ST_TileEnvelope($2, $3, $4), {extent}, {buffer}
                 ) as geom
            from {table} as layer
           where layer.geom && ST_MakeEnvelope($5, $6, $7, $8, 4326) and {condition}
           order by layer.gid
           limit {limit}
      ) as "the tile"
     where "the tile".geom is not null
) as tile

-- name: cut
left({column}::text, {length}) as {name}

-- name: double
-- A number that no double can hold is left out; of those near 0, nothing is left.
case when abs({column}) < 1e-307 then 0 when abs({column}) <= 1e308 then {column}::double precision end as {name}

-- name: box
ST_Intersects(layer.geom, ST_MakeEnvelope({west}, {south}, {east}, {north}, 4326))

-- name: shape
ST_SetSRID(ST_GeomFromGeoJSON({geojson}), 4326)

-- name: group
({part})

-- name: not
not {condition}

-- name: lower
lower({value}::text)

-- name: is_null
{value} is null

-- name: between
{value} between {low} and {high}

-- name: among
{value} in ({values})

-- name: relate
{relation}({left}, {right})

-- name: everything
true

-- name: descending
{column} desc
