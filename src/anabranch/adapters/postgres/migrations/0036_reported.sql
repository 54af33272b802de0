-- The column is only used by functions, which are deployed in the same transaction.
alter table app.lanes rename column told to reported;
alter index app.lanes_untold rename to lanes_unreported;
