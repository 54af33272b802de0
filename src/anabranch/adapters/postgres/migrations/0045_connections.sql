-- Each session has the connections that its process takes at most, so that the sum over all processes can be checked.
alter table app.sessions add column connections integer;
