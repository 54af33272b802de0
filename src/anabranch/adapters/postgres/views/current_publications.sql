-- What readers see now, with the content that it shows; a key that was withdrawn shows nothing.
create view app.current_publications as
    select k.kind, k.key, k.owner, c.id, c.number, c.action, c.actor, c.reason, c.at, c.source, s.job_id, s.body, s.manifest,
           s.signing_key, s.handlers, k.public
      from app.publication_keys k
      join app.publications c on c.id = k.current and c.action <> 'withdraw'
      join app.publications s on s.id = c.source;
