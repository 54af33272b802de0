"""Notifications: endpoints, callbacks of jobs, and the delivery of messages from the outbox."""
