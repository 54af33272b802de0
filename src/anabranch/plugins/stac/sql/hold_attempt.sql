-- Whether the attempt is current; its job stays locked until the end of the transaction (E3, E7).
select app.hold_attempt(%(job_id)s, %(node)s, %(attempt)s, %(lane)s, %(place)s, %(token)s)
