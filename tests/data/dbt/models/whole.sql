{{ config(materialized='table', partition_by='day', clustered_by=none, tblproperties={'delta.enableChangeDataFeed': 'true'}) }}
select id, amount, day from incoming
