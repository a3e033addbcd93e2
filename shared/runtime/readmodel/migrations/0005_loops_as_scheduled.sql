-- What tells a report that does not fit a loop from one that does. A loop has its row from the moment it is scheduled,
-- without `started_at`. NULL: of a time before this.

ALTER TABLE noetl.loop ADD COLUMN local boolean, ADD COLUMN begun int;
