{{ config(materialized='view') }}
select * from {{ ref('merged') }} join {{ ref('products') }} using (id)
